"""`python -m shedlight.cli`: the command without its script."""

from shedlight.cli.main import main

if __name__ == "__main__":
    main()
