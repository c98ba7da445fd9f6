"""What `python -m fsdp_mlir.train` is made of: stages with a cache, progress, plots."""
