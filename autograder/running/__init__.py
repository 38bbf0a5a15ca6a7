"""The host's side of the sandbox: what is asked, what comes back, and the walls around it."""
