"""The measuring side: a fork server, the judge it forks per candidate, and the cells in which candidates run.

Needs torch and the standard library only, so that it runs under any Python that has the user's own torch.
"""
