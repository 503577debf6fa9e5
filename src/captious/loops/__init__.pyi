import captious.loops.trainers
from captious.loops.trackers import TrackedReport as TrackedReport
