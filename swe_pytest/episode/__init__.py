"""The episode: one run of a case, from seeding the session to closing it."""
