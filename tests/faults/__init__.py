"""Break real runs in every way we know, and see that each is explained and leaves nothing behind.

python -m tests.faults                    # all, at least 20 times each; a table in Markdown
python -m tests.faults "send/send" --times 3
python -m tests.faults good               # 500 good runs of each lab under load: no alarm

broken.py         what runs on the ranks, and where it breaks
faults.py         each fault: what breaks it, what must be said of it
trial.py          one run of one fault, looked at from all sides
kernels.py        the same for a Jupyter kernel that is interrupted, restarted or killed
surroundings.py   machines that are short of something, made with namespaces
table.py          many trials, counted
"""
