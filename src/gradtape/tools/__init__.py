"""What looks at the library from outside: gradient checks and the command line. Nobody imports tools."""
