"""Proposers, the sources of candidates; each implements `core.protocols.Proposer`."""
