"""People's verdict from few ratings: estimate, plan, choose what to rate, calibrate, find a threshold."""
