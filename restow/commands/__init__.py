"""The subcommands of ``restow``, a module each; ``command`` is the click command."""
