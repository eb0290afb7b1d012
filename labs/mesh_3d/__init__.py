"""The 3D mesh: data, pipeline and tensor parallelism together, against one device."""
