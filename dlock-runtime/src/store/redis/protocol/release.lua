-- Gives up a lock, or the place in its queue. The first waiter gets the lock, or only the news.
--
-- KEYS[1]  the lock: a string `owner fence label`, at `namespace:{name}` or at `name`; a hash if it is shared
-- KEYS[2]  its queue, at `namespace:{name}:q`, or `:rq` for a lock at `name`: owners by the time of
--          their arrival
-- KEYS[3]  its living: the same owners by the time until which they count as alive
-- KEYS[4]  the last fence of the slot
-- ARGV[1]  owner
-- ARGV[4]  `+` or `+n` if the owner shares the lock, or waits to do so
--
-- A waiter that only wants to be told is in both sets as `owner!`. It is told with a fence of 0, and the lock is
-- free. It keeps its place, but counts as alive for one second more at the most.
--
-- Returns 3 if the lock was the owner's and others share it, 2 if it was the owner's and a waiter has it now,
-- 1 if it was the owner's and is free, 0 if it was not the owner's, who has at most left the queue. If a waiter
-- could not be told from here, {that number, channel, message, ...}: the caller is to publish each message there.
--
-- It is one step so that nobody can take the lock between the release and the grant, and so that
-- a stranger's lock is never deleted. The fence is written before the lock. Whatever hinders the
-- grant (no memory, foreign data in the queue), the lock is released all the same.
--
-- A lock that nobody waits for costs three calls and no function: what only others need comes
-- after it. What concerns shared locks and permits follows this text: `sharing` and `leave`.
local lock, queue, owner, wants = KEYS[1], KEYS[2], ARGV[1], ARGV[4]

local value = redis.pcall('GET', lock)
local is_shared = type(value) == 'table' and string.find(value.err, '^WRONGTYPE') == 1
if type(value) == 'table' and not is_shared then
  value = redis.call('GET', lock)
end
if not is_shared and not wants then
  if not value or string.sub(value, 1, #owner + 1) ~= owner .. ' ' then
    redis.call('ZREM', queue, owner, owner .. '!')
    redis.call('ZREM', KEYS[3], owner, owner .. '!')
    return 0
  end
  -- Where the server refuses to tell, it is no 0.
  if redis.pcall('EXISTS', queue) == 0 then
    redis.call('DEL', lock)
    return 1
  end
end

local living, fence = KEYS[3], KEYS[4]

-- The answer, or nil where the server refuses.
local function try(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    return nil
  end
  return answer
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- The first waiter that is alive; the dead before it are dropped, and so is the owner.
local function first_waiter()
  local first = (try('ZRANGE', queue, 0, 0) or {})[1]
  while first do
    local until_ms = try('ZSCORE', living, first)
    local is_owner = first == owner or first == owner .. '!'
    if until_ms and tonumber(until_ms) >= now and not is_owner then
      return first
    end
    if not try('ZREM', queue, first) then
      return nil
    end
    try('ZREM', living, first)
    first = (try('ZRANGE', queue, 0, 0) or {})[1]
  end
end

-- Greater than the last fence, and than those a server has forgotten that lost its data: the
-- floor is the time since 2024 in units of 10 us. The released lock's own counts, even if somebody
-- has deleted the counter since. Nil if it cannot be told or kept.
local function next_fence()
  local last = try('GET', fence)
  if last == nil then
    return nil
  end
  last = last or '0'
  if not string.match(last, '^%d+$') or tonumber(last) >= 2 ^ 52 then
    return nil
  end
  last = tonumber(last)
  local held = tonumber(string.match(value, '^%S+ (%d+) %S+$') or '0')
  if held < 2 ^ 52 then
    last = math.max(last, held)
  end
  local floor = (time[1] - 1704067200) * 100000 + math.floor(time[2] / 10)
  local granted = string.format('%.0f', math.max(last + 1, floor))
  return try('SET', fence, granted) and granted
end

-- Last, and not allowed to fail, as the lock is released already: a user may lack the channel, and
-- where pub/sub is sharded a script may not publish in another slot than that of its keys. Returns
-- `outcome`, with what is left to the caller.
local function tell(waiter, granted, outcome)
  local namespace, name = string.match(queue, '^(.-):{(.*)}:r?q$')
  local channel = namespace .. ':wake:' .. string.match(waiter, '^[^.]*')
  local message = waiter .. ' ' .. granted .. ' ' .. name
  if try('PUBLISH', channel, message) then
    return outcome
  end
  return {outcome, channel, message}
end

local grant_ttl = 3000
local told_for = 1000
local first = not is_shared and not wants and first_waiter()
if not is_shared and not wants and not string.find(first or '', '+', 1, true) then
  if first and string.sub(first, -1) == '!' then
    redis.call('DEL', lock)
    try('ZADD', living, 'LT', now + told_for, first)
    return tell(string.sub(first, 1, -2), '0', 1)
  end

  local granted = first and next_fence()
  if granted and try('SET', lock, first .. ' ' .. granted .. ' -', 'PX', grant_ttl) then
    try('ZREM', queue, first)
    try('ZREM', living, first)
    return tell(first, granted, 2)
  end
  redis.call('DEL', lock)
  return 1
end
