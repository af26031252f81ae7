"""The common part of the subcommands: options, sessions with an API server, printing, progress, exit codes."""
