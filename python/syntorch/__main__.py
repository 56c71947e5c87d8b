"""The `syntorch` command of an installed package: runs the program in it."""
import os
import sys

from .runs import program


def main():
    os.execv(program(), ["syntorch", *sys.argv[1:]])


if __name__ == "__main__":
    main()
