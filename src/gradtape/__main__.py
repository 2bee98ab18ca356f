"""`python -m gradtape`: the command line."""

from gradtape.tools.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
