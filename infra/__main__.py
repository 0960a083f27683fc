"""`python -m infra` is the `regent` command line: what the supervisor starts, wherever the script
lies.
"""

from infra.cli.main import command

if __name__ == "__main__":
    command()
