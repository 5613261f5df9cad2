-- Starts the TTL of a lock anew, but only for its owner.
--
-- KEYS[1]  the lock: a string `owner fence label`
-- ARGV[1]  owner            ARGV[2]  TTL in ms, greater than zero
--
-- Returns 1 if it was the owner's, else 0.
--
-- Compare and expire must be one step: between a GET and a PEXPIRE sent by a client the lock can
-- change hands, and we would prolong a stranger's lease. It touches one key only, so that it goes
-- on working while a slot is moved between servers.
--
-- GETEX instead of GET, because it counts as a write: a replica would answer GET from data that
-- may be old, and "not yours" must come from a master.
local value = redis.call('GETEX', KEYS[1])
if string.match(value or '', '^(%S+) %d+ %S+$') ~= ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
