from captious.rewarding.drift import Drift as Drift
from captious.rewarding.drift import read_drift as read_drift
from captious.rewarding.functions import Reward as Reward
from captious.rewarding.functions import Rewards as Rewards
from captious.rewarding.functions import rewards as rewards
from captious.runs.folder import is_reward_run as is_reward_run
