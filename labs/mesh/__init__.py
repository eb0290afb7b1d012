"""A training step on a mesh of ranks: data, pipeline, context and tensor parallelism together.

`layout` says which rank stands where; `tensor_parallel`, `stages` and labs/data_parallel are passes
over a plain labs/gpt.py, which knows of none of them; `trainer` puts them together. Every rank
imports this, so it stays light; the lab that measures it is labs/mesh_3d.
"""
