"""Pages about the rules that approve or reject changes, and about what they found."""
