"""The terminal face of a conversation: chat, candidates, sources and plots beside it."""
