"""What the subcommands share: options, sessions with an API server, printing, progress, exit codes."""
