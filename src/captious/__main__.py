"""``python -m captious``, and ``torchrun -m captious`` to train with several processes."""

from captious.cli.app import main

if __name__ == "__main__":
    main()
