-- Starts the TTL of a lock anew, but only for its owner.
--
-- KEYS[1]  the lock: a string `owner fence label`
-- ARGV[1]  owner            ARGV[2]  TTL in ms, greater than zero
-- ARGV[3]  label, or `label#function`, or nothing to leave it as it is
--
-- Returns 1 if it was the owner's, else 0.
--
-- Compare and expire must be one step: between a GET and a PEXPIRE sent by a client the lock can
-- change hands, and we would prolong a stranger's lease. It touches one key only, so that it goes
-- on working while a slot is moved between servers.
--
-- GETEX instead of GET, because it counts as a write: a replica would answer GET from data that
-- may be old, and "not yours" must come from a master.
--
-- A lease that a releaser has handed on has no label yet: its first renewal writes it, as it does for a
-- function of the same process that has got the lease since. A server out
-- of memory takes that as well, since only a script's first write can be refused, which is GETEX.
local lock, owner, ttl, label = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local value = redis.call('GETEX', lock)
if not value or string.sub(value, 1, #owner + 1) ~= owner .. ' ' then
  return 0
end
local fence
if label and string.sub(value, -#label - 1) ~= ' ' .. label then
  fence = string.match(value, '^%S+ (%d+) %S+$')
end
if fence then
  redis.call('SET', lock, owner .. ' ' .. fence .. ' ' .. label, 'PX', ttl)
else
  redis.call('PEXPIRE', lock, ttl)
end
return 1
