"""Where candidates come from; each proposer implements `core.protocols.Proposer`."""
