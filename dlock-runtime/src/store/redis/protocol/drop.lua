-- Gives up a lock, and tells nobody: a release while the keys of the lock lie on two servers.
--
-- KEYS[1]  the lock: a string `owner fence label`
-- ARGV[1]  owner
--
-- Returns 1 if the lock was the owner's and is free, else 0.
--
-- It touches one key only, so that it works while the slot is moved. Who waits is not told, and
-- finds the lock free when it looks again.
--
-- GETEX instead of GET, because it counts as a write, and "not yours" must come from a master that
-- is in touch with the others: one that was cut off may allow to read.
local lock, owner = KEYS[1], ARGV[1]

local value = redis.call('GETEX', lock)
if not value or string.sub(value, 1, #owner + 1) ~= owner .. ' ' then
  return 0
end
redis.call('DEL', lock)
return 1
