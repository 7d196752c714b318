-- wrk's script: sends the lines of a file in turn, of method, path, authorization, content type and body, with tabs between.
local requests, sent = {}, 0

function init(args)
  for line in io.lines(args[1]) do
    local method, path, authorization, type, body = line:match("^(.-)\t(.-)\t(.-)\t(.-)\t(.*)$")
    local headers = {
      ["Authorization"] = authorization,
      ["Accept"] = "application/json",
      ["Accept-Encoding"] = "gzip",
      ["User-Agent"] = "gatehouse-bench/1.0",
    }
    if type ~= "" then headers["Content-Type"] = type end
    if body == "" then body = nil end
    requests[#requests + 1] = wrk.format(method, path, headers, body)
  end
end

function request()
  sent = sent % #requests + 1
  return requests[sent]
end

function done(summary)
  local errors = summary.errors
  local bad = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('{"requests":%d,"bad":%d,"seconds":%f}\n', summary.requests, bad, summary.duration / 1e6))
end
