"""`python -m labs`: the command line without the installed script."""

from labs.cli import main

if __name__ == "__main__":
    main()
