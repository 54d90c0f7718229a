"""HTTP in and out; asynchronous here and nowhere else."""
