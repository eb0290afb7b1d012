"""The course's software: one module a topic, and the machinery that runs it on real ranks."""
