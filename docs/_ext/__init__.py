"""What the site adds to its generator: the reference, made from docstrings and the ops' own facts; source pages."""
