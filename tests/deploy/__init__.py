"""Files for operators: image, compose, manifests, unit, alerts and dashboard."""
