"""Everything that this project says about GPUs, part by part."""
