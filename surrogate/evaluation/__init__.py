"""Judging of forecasters: what they said beside what was measured, with intervals."""
