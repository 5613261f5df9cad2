
-- The part that `acquire` and `release` have in common, for locks with several holders.
--
-- A shared lock is a hash: each owner with `end label`, the server's time in ms at which its lease ends, and
-- `!` with `epoch earliest`, the fence of all of them and a time that is not after the first end. The key
-- lasts as long as its last lease. A waiter that wants to share is in the queue as `owner+`, one that wants
-- one of `n` permits as `owner+n`.
--
-- It follows the text of another script, whose keys, `time`, `now` and `first_waiter` it uses. A refusal of
-- the server in the middle must not undo or hide what is done already, so nothing here fails but the first
-- look at the lock.

-- The answer, or nil where the server refuses.
local function try(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    return nil
  end
  return answer
end

-- `free`, `shared`, or `exclusive`; of a shared lock the epoch, the time before which no lease ends, and the
-- number of holders.
local state, epoch, earliest, count = 'free', nil, nil, 0
local untold = {}

local function remember_epoch()
  try('HSET', lock, '!', epoch .. ' ' .. string.format('%.0f', earliest))
end

-- Removes the holders whose leases have ended: a late renewal must not bring one back beside those that are
-- granted since. Returns the error of a server that does not show them: some may be alive.
local function remove_ended()
  local all = redis.pcall('HGETALL', lock)
  if all.err then
    return all
  end
  count, earliest = 0, math.huge
  for at = 1, #all, 2 do
    if all[at] ~= '!' then
      local ends = tonumber(string.match(all[at + 1], '^(%d+) ') or '0')
      -- One that the server refuses to remove does not count, and the next request tries again.
      if ends > now then
        count = count + 1
      end
      if ends > now or not try('HDEL', lock, all[at]) then
        earliest = math.min(earliest, ends)
      end
    end
  end
  if count == 0 then
    try('DEL', lock)
    state = 'free'
  else
    remember_epoch()
  end
end

-- Reads what lies at the lock. Returns an error for foreign data.
local function read_holders()
  local head = redis.pcall('HGET', lock, '!')
  if type(head) == 'table' then
    if string.find(head.err, '^WRONGTYPE') and type(redis.pcall('GET', lock)) ~= 'table' then
      state = 'exclusive'
      return nil
    end
    redis.call('HGET', lock, '!')
  end
  if not head then
    if redis.call('HLEN', lock) > 0 then
      return redis.error_reply('WRONGTYPE the hash at the lock is not a shared lock')
    end
    return nil
  end
  epoch, earliest = string.match(head, '^(%d+) (%d+)$')
  if not epoch then
    return redis.error_reply('WRONGTYPE the hash at the lock is not a shared lock')
  end
  state, earliest = 'shared', tonumber(earliest)
  count = redis.call('HLEN', lock) - 1
  if count == 0 or earliest <= now then
    return remove_ended()
  end
end

-- Whether the living holders let in one more: `wants` is '' for exclusive, `+` to share, `+n` for a permit.
local function admits(wants)
  if wants == '' then
    return state == 'free'
  end
  local most = tonumber(string.sub(wants, 2))
  return state ~= 'exclusive' and (not most or count < most)
end

-- Counts the next fence: greater than the last one and the epoch, and than those a server has forgotten that
-- lost its data. Nil if it cannot be told or kept. `run` sends commands.
local function count_fence(run)
  local last = run('GET', fence)
  if last == nil then
    return nil
  end
  last = tonumber(last or '0')
  if not last or last >= 2 ^ 52 then
    return nil
  end
  local floor = tonumber(ARGV[5] or '')
    or (time[1] - 1704067200) * 100000 + math.floor(time[2] / 10)
  local held = tonumber(epoch or '0')
  local next_fence = math.max(last, held < 2 ^ 52 and held or 0) + 1
  local counted = string.format('%.0f', math.max(next_fence, floor))
  return run('SET', fence, counted) and counted
end

-- Adds a holder by `run`, which sends commands. The first one brings its fence as the epoch.
local function add_holder(run, holder, lease, name, number)
  local ends = now + lease
  local is_first = state == 'free'
  if not run('HSET', lock, holder, string.format('%.0f', ends) .. ' ' .. name) then
    return false
  end
  if is_first then
    state, epoch, earliest, count = 'shared', number, ends, 0
    remember_epoch()
  elseif ends < earliest then
    earliest = ends
    remember_epoch()
  end
  count = count + 1
  if is_first or redis.call('PTTL', lock) < lease then
    redis.call('PEXPIRE', lock, lease)
  end
  return true
end

-- Last of all that concerns a waiter, and not allowed to fail: a user may lack the channel, and where pub/sub
-- is sharded a script may not publish in another slot than that of its keys. The rest is left to the caller.
local function tell_waiter(waiter, grant)
  local namespace, name = string.match(queue, '^(.-):{(.*)}:r?q$')
  local channel = namespace .. ':wake:' .. string.match(waiter, '^[^.]*')
  local message = waiter .. ' ' .. grant .. ' ' .. name
  if not try('PUBLISH', channel, message) then
    table.insert(untold, channel)
    table.insert(untold, message)
  end
end

-- Makes a waiter a holder, and returns what it is told; nil where the server refuses.
local function grant_to(waiter, wants)
  local grant_lease = 3000
  -- Each grant to a waiter has a number of its own, by which the waiter dates it.
  local number = count_fence(try)
  if not number then
    return nil
  end
  if wants ~= '' then
    return add_holder(try, waiter, grant_lease, '-', number) and epoch .. '+' .. number
  end
  state, epoch = 'exclusive', number
  return try('SET', lock, waiter .. ' ' .. number .. ' -', 'PX', grant_lease) and number
end

-- Tells those at the head of the queue that only want to be told, and that may hold the lock together: one that
-- wants it exclusively, or all before the first of those. They keep their places, or others would come before them
-- until their requests are here. The dead among them are passed over.
local function tell_head()
  local told_for = 1000
  local has_told = false
  for _, member in ipairs(try('ZRANGE', queue, 0, 63) or {}) do
    local waiter, wants, notice = string.match(member, '^([^+!]*)([^!]*)(!?)$')
    local until_ms = try('ZSCORE', living, member)
    if until_ms and tonumber(until_ms) >= now then
      if notice == '' or has_told and wants == '' then
        return
      end
      try('ZADD', living, 'LT', now + told_for, member)
      tell_waiter(waiter, '0')
      has_told = true
      if wants == '' then
        return
      end
    end
  end
end

-- Grants the waiters at the head of the queue that may hold the lock together, but none from `stop_at` on; the
-- next request grants those beyond the first 64. Who only wants to be told is told if `tells`. Returns the
-- waiter that is the first then.
local function grant_waiters(stop_at, tells)
  for _ = 1, 64 do
    local first = first_waiter()
    if not first or first == stop_at then
      return first
    end
    local waiter, wants, notice = string.match(first, '^([^+!]*)([^!]*)(!?)$')
    if not admits(wants) then
      return first
    end
    if notice == '!' then
      if tells then
        tell_head()
      end
      return first
    end
    local grant = grant_to(waiter, wants)
    if not grant then
      return first
    end
    try('ZREM', queue, first)
    try('ZREM', living, first)
    tell_waiter(waiter, grant)
  end
  return first_waiter()
end

local function with_untold(answer)
  for _, word in ipairs(untold) do
    table.insert(answer, word)
  end
  return #answer == 1 and answer[1] or answer
end
