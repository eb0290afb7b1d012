"""What the test tells an attack: written anew for each run of the tests."""

PORT = 0  # where the test listens on this machine
ABSTRACT = ""  # an abstract Unix socket that it listens on
CANARY = ""  # text in files and variables that no rank may see
FOLDER = ""  # a folder of the test's: the class's files, results, a secret
JUDGE = 0  # the process that judges
