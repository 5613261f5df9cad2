-- Asks for a lock: takes it, or hands it to the first waiter, or enters the queue.
--
-- KEYS[1]  the lock: a string `owner fence label`, at `namespace:{name}` or at `name`; a hash if it is shared
-- KEYS[2]  its queue, at `namespace:{name}:q`, or `:rq` for a lock at `name`: owners by the time of
--          their arrival
-- KEYS[3]  its living: the same owners by the time until which they count as alive
-- KEYS[4]  the last fence of the slot
-- ARGV[1]  owner            ARGV[2]  TTL in ms
-- ARGV[3]  for how many ms the owner counts as alive in the queue; 0 does not queue, and a number
--          below 0 does so only to be told that the lock is free: such a waiter is in both sets as
--          `owner!`, and nobody has to wait for it
-- ARGV[4]  label, or `label#function`: one word
-- ARGV[5]  the least fence, if not the server's time
-- ARGV[6]  `+` to share the lock, or `+n` for one of n permits
--
-- Returns the fence if the lock is the owner's, else {TTL left in ms or -1 for none, place in the
-- queue or -1, last fence, label of the holder or '', fence of the holder or 0}, and the number of other holders of a shared lock. The last fence is
-- the slot's at the end of this script: whatever is granted later has a greater one. Two more follow
-- for each waiter that was made a holder and could not be told from here: a channel, and the message that
-- the caller is to publish there. They follow the fence as well.
--
-- It is one step because "free", "first in the queue" and "taken" must be about the same moment.
-- A script that fails half-way is not undone: the fence is written before the lock, so that no
-- lock ever has a fence that could be given again.
--
-- A lock that is free and that nobody waits for costs five calls and no function: what only others
-- need comes after it. What concerns shared locks and permits follows this text: `sharing` and `join`.
local lock, queue, fence, owner, ttl, label = KEYS[1], KEYS[2], KEYS[4], ARGV[1], ARGV[2], ARGV[4]

-- Whatever lies there, so that foreign data of any type is met below.
local is_usual = redis.call('EXISTS', lock, queue) == 0
local value, is_shared, holder, held_fence, holder_label

if not is_usual then
  value = redis.pcall('GET', lock)
  if type(value) == 'table' then
    is_shared = string.find(value.err, '^WRONGTYPE') == 1
    value = not is_shared and redis.call('GET', lock)
  end
  -- Anything else is a foreign client's: held, by nobody we could name.
  holder, held_fence, holder_label = string.match(value or '', '^(%S+) (%d+) (%S+)$')
  if holder == owner then
    -- Without a new label nothing is written that a server out of memory would refuse.
    if holder_label == label then
      redis.call('PEXPIRE', lock, ttl)
    else
      redis.call('SET', lock, owner .. ' ' .. held_fence .. ' ' .. label, 'PX', ttl)
    end
    return tonumber(held_fence)
  end
end

-- Before anything is written: a fence that cannot be read cannot be exceeded.
local text = redis.call('GET', fence) or '0'
local last = tonumber(text)
if not last or last >= 2 ^ 52 or string.find(text, '%D') then
  return redis.error_reply('WRONGTYPE the fence counter at `' .. fence .. '` is not a valid number')
end

local held = 0
if value then
  held = tonumber(held_fence or '0')
  if held >= 2 ^ 52 then
    held = 0
  end
  -- The holder's own counts, even if somebody has deleted the counter since.
  last = math.max(last, held)
  if ARGV[3] == '0' then
    return {redis.call('PTTL', lock), -1, last, holder_label or '', held}
  end
end

-- Greater than the last fence, and than those a server has forgotten that lost its data: the
-- floor is the time since 2024 in units of 10 us, by the server's clock or the asker's.
local time = redis.call('TIME')
local next_fence = tonumber(ARGV[5])
  or (time[1] - 1704067200) * 100000 + math.floor(time[2] / 10)
if next_fence <= last then
  next_fence = last + 1
end
local granted = string.format('%.0f', next_fence)

if is_usual and not ARGV[6] then
  redis.call('SET', fence, granted)
  redis.call('SET', lock, owner .. ' ' .. granted .. ' ' .. label, 'PX', ttl)
  return next_fence
end

local living, alive_for, place_of_owner = KEYS[3], tonumber(ARGV[3]), owner .. (ARGV[6] or '')
if alive_for < 0 then
  alive_for, place_of_owner = -alive_for, place_of_owner .. '!'
end
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- The first waiter that is alive; the dead before it are dropped.
local function first_waiter()
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  while first do
    local until_ms = redis.call('ZSCORE', living, first)
    if until_ms and tonumber(until_ms) >= now then
      return first
    end
    redis.call('ZREM', queue, first)
    redis.call('ZREM', living, first)
    first = redis.call('ZRANGE', queue, 0, 0)[1]
  end
end

-- Enters the queue or stays in it; the place in it.
local function wait_in_queue()
  if alive_for <= 0 then
    return -1
  end
  local queued = redis.call('ZSCORE', queue, place_of_owner)
  -- Foreign data at either key is to be met before the first write: it must leave nothing behind.
  redis.call('ZSCORE', living, place_of_owner)
  if not queued then
    local arrival = now
    -- Behind the last, even within one millisecond or when the clock was set back.
    local tail = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
    if tail and tonumber(tail) >= now then
      arrival = tonumber(tail) + 1
    end
    redis.call('ZADD', queue, arrival, place_of_owner)
  end
  redis.call('ZADD', living, now + alive_for, place_of_owner)
  -- Nothing may stay behind when the last waiter dies.
  for _, key in ipairs({queue, living}) do
    redis.call('PEXPIRE', key, alive_for + 1000)
  end
  -- For the place: the dead before it do not count.
  first_waiter()
  return redis.call('ZRANK', queue, place_of_owner)
end

if value then
  local place = wait_in_queue()
  return {redis.call('PTTL', lock), place, last, holder_label or '', held}
end

local first = first_waiter()
if not is_shared and not ARGV[6] and not string.find(first or '', '+', 1, true) then
  if first and first ~= owner and string.sub(first, -1) ~= '!' then
    local grant_ttl = 3000
    redis.call('SET', fence, granted)
    redis.call('SET', lock, first .. ' ' .. granted .. ' -', 'PX', grant_ttl)
    redis.call('ZREM', queue, first)
    redis.call('ZREM', living, first)
    local place = wait_in_queue()
    -- Last, and not allowed to fail, as the lease is granted already: a user may lack the channel, and
    -- where pub/sub is sharded a script may not publish in another slot than that of its keys.
    local namespace, name = string.match(queue, '^(.-):{(.*)}:r?q$')
    local channel = namespace .. ':wake:' .. string.match(first, '^[^.]*')
    local message = first .. ' ' .. granted .. ' ' .. name
    local told = redis.pcall('PUBLISH', channel, message)
    if type(told) == 'table' and told.err then
      return {grant_ttl, place, next_fence, '', next_fence, channel, message}
    end
    return {grant_ttl, place, next_fence, '', next_fence}
  end

  redis.call('SET', fence, granted)
  redis.call('ZREM', queue, owner, owner .. '!')
  redis.call('ZREM', living, owner, owner .. '!')
  redis.call('SET', lock, owner .. ' ' .. granted .. ' ' .. label, 'PX', ttl)
  return next_fence
end
