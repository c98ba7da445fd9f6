"""What a user meets: command lines, pages, traces and reports, packages."""
