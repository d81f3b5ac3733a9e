"""What the scripts call: each a function and a thin command line."""
