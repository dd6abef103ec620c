#!/usr/bin/env python
"""Django's entry point: `manage.py help` lists the commands."""

from icekeeper.command_line import run

if __name__ == "__main__":
    run()
