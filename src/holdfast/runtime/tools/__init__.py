"""Tools: functions, client tools, output limits and recall."""
