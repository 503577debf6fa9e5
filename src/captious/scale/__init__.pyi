from captious.scale.keep import Selection as Selection
from captious.scale.plan import plan_shards as plan_shards
from captious.scale.scoring import ShardsFailed as ShardsFailed
from captious.scale.scoring import score_shards as score_shards
