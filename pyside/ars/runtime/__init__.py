"""Running a simulator: its processes, the conversation with its host, and traces as they come in."""
