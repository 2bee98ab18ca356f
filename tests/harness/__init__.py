"""What the generated tests are made of: samples as cases, numerical derivatives, checks, and the table of what is checked."""
