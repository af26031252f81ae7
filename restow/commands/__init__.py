"""The subcommands of ``restow``, one module each; ``command`` is the click command."""
