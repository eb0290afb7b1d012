"""Context parallelism: attention where each rank holds a part of the sequence.

The mathematics of one block (`places`, `blocks`, `flash`), the ring and Ulysses as torch operations
on any process group (`attention`, `ulysses`), torch's own ring beside them (`torch_native`), and
what runs on a rank. Nothing here knows of a lab: every rank imports it, so it stays light.
"""
