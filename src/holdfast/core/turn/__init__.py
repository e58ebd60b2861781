"""The turn: its transitions, its next action, and the recovery ladder."""
