"""Commands of the `holdfast` command line; `holdfast.cli.COMMANDS` names the module of each."""
