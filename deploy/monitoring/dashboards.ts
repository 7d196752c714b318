import type { Dashboard } from "./dashboard.ts";

const P99 = (metric: string, by: string) =>
  `histogram_quantile(0.99, sum by (${by}, le) (rate(${metric}_bucket[$__rate_interval])))`;
const RATE = (metric: string, by: string) => `sum by (${by}) (rate(${metric}[$__rate_interval]))`;

/** Keys are file names. `node deploy/monitoring/build.ts` writes the JSON files. */
export const DASHBOARDS: Readonly<Record<string, Dashboard>> = {
  overview: {
    uid: "gatehouse-overview",
    title: "Gatehouse: overview",
    rows: [
      {
        title: "Now",
        panels: [
          {
            title: "Requests",
            unit: "reqps",
            isStat: true,
            queries: [["sum(rate(gatehouse_http_request_seconds_count[5m]))", "requests"]],
          },
          {
            title: "Failing (5xx)",
            unit: "percentunit",
            isStat: true,
            description: "The objective is 0.05 % over 30 days.",
            queries: [["gatehouse:http_errors:ratio_rate5m", "5 min"]],
          },
          {
            title: "Not ready",
            unit: "short",
            isStat: true,
            queries: [["count(gatehouse_ready == 0) or vector(0)", "parts"]],
          },
          {
            title: "Alerts",
            unit: "short",
            isStat: true,
            queries: [
              ['count(ALERTS{alertname=~"Gatehouse.+", alertstate="firing"}) or vector(0)', "firing"],
            ],
          },
        ],
      },
      {
        title: "HTTP, by route",
        panels: [
          {
            title: "Rate",
            unit: "reqps",
            queries: [["sum by (method, route) (gatehouse:http_requests:rate5m)", "{{method}} {{route}}"]],
          },
          {
            title: "Errors",
            unit: "reqps",
            queries: [
              [
                'sum by (route, status) (gatehouse:http_requests:rate5m{status=~"5.."})',
                "{{status}} {{route}}",
              ],
            ],
          },
          {
            title: "Duration, 99th percentile",
            unit: "s",
            queries: [["gatehouse:http_seconds:p99_rate5m", "{{route}}"]],
          },
        ],
      },
      {
        title: "gRPC, by method",
        panels: [
          {
            title: "Rate",
            unit: "reqps",
            queries: [["sum by (method) (gatehouse:rpc_requests:rate5m)", "{{method}}"]],
          },
          {
            title: "Errors",
            unit: "reqps",
            description: "Excludes expected refusals (NOT_FOUND, INVALID_ARGUMENT, …).",
            queries: [
              [
                'sum by (method, code) (gatehouse:rpc_requests:rate5m{code=~"INTERNAL|UNKNOWN|UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED"})',
                "{{code}} {{method}}",
              ],
              [
                RATE("gatehouse_rpc_callers_refused_total", "service, caller, setting"),
                "{{service}} refuses {{caller}} {{setting}}",
              ],
            ],
          },
          {
            title: "Duration, 99th percentile",
            unit: "s",
            queries: [["gatehouse:rpc_seconds:p99_rate5m", "{{method}}"]],
          },
        ],
      },
      {
        title: "Upstreams and clients",
        panels: [
          {
            title: "Circuits (0 closed, 1 half-open, 2 open)",
            unit: "short",
            queries: [["max by (upstream) (gatehouse_upstream_circuit)", "{{upstream}}"]],
          },
          {
            title: "Connections",
            unit: "short",
            queries: [
              ["sum by (instance) (gatehouse_http_connections)", "{{instance}}"],
              ["sum by (instance) (gatehouse_websockets)", "WebSockets {{instance}}"],
              ["sum by (instance) (gatehouse_open_exchanges)", "open calls {{instance}}"],
            ],
          },
          {
            title: "Open calls that were ended",
            unit: "reqps",
            description: "Because their token, session or key ended, or its state was unknown.",
            queries: [[RATE("gatehouse_exchanges_ended_total", "code"), "{{code}}"]],
          },
          {
            title: "Tokens for upstreams",
            unit: "reqps",
            description:
              "Exchanges of callers' tokens for routes with an audience, by result. Those that failed were answered 503.",
            queries: [
              [RATE("gatehouse_token_exchanges_total", "result"), "{{result}}"],
              ["sum by (instance) (gatehouse_upstream_tokens)", "remembered {{instance}}"],
            ],
          },
          {
            title: "Refusals that are only counted",
            unit: "reqps",
            description:
              "Refused calls that the audit log does not have one by one, because one caller made too many.",
            queries: [["sum(rate(gatehouse_audit_refusals_left_out_total[5m]))", "left out"]],
          },
          {
            title: "Calls over a rate limit",
            unit: "reqps",
            queries: [
              ["sum by (limit, route) (rate(gatehouse_rate_limited_total[5m]))", "{{limit}} {{route}}"],
            ],
          },
          {
            title: "Counters of rate limits",
            unit: "short",
            queries: [["max by (calls) (gatehouse_rate_limit_entries)", "{{calls}}"]],
          },
        ],
      },
    ],
  },
  security: {
    uid: "gatehouse-security",
    title: "Gatehouse: logins and security",
    rows: [
      {
        title: "Logins",
        panels: [
          {
            title: "By step and outcome",
            unit: "reqps",
            queries: [[RATE("gatehouse_logins_total", "step, outcome"), "{{step}}: {{outcome}}"]],
          },
          {
            title: "Security events of providers",
            unit: "reqps",
            queries: [
              [RATE("gatehouse_provider_events_total", "provider, result"), "{{provider}}: {{result}}"],
            ],
          },
          {
            title: "Refused, by internal reason",
            unit: "reqps",
            queries: [[RATE("gatehouse_login_refusals_total", "reason"), "{{reason}}"]],
          },
          {
            title: "Password hashes",
            unit: "short",
            queries: [
              ["sum(gatehouse_password_hashes_running)", "running"],
              ["sum(gatehouse_password_hashes_waiting)", "waiting"],
              [RATE("gatehouse_password_hashes_rejected_total", "reason"), "refused a second: {{reason}}"],
              [
                RATE("gatehouse_password_hash_share_refusals_total", "share"),
                "refused a second: share of {{share}}",
              ],
            ],
          },
          {
            title: "Wait for a hash, 99th percentile",
            unit: "s",
            queries: [[P99("gatehouse_password_hash_wait_seconds", "instance"), "{{instance}}"]],
          },
        ],
      },
      {
        title: "Tokens",
        panels: [
          {
            title: "Access tokens refused, by check",
            unit: "reqps",
            queries: [[RATE("gatehouse_token_refusals_total", "reason"), "{{reason}}"]],
          },
          {
            title: "Refreshes",
            unit: "reqps",
            queries: [[RATE("gatehouse_refreshes_total", "result"), "{{result}}"]],
          },
          {
            title: "Verified from memory",
            unit: "percentunit",
            queries: [["gatehouse:verifier_memory:ratio_rate5m", "{{service}}"]],
          },
          {
            title: "Revocation lag",
            unit: "s",
            description: "Beyond 3 s tokens are refused.",
            queries: [
              ["gatehouse_revocation_lag_seconds", "{{service}} {{instance}}"],
              ["gatehouse_verifier_lag_seconds", "{{service}} {{instance}}"],
            ],
          },
        ],
      },
      {
        title: "Keys, certificates, throttle",
        panels: [
          {
            title: "Signing key: age and rotation",
            unit: "s",
            queries: [
              ["max(gatehouse_signing_key_age_seconds)", "age"],
              ["max(gatehouse_signing_key_max_age_seconds)", "due"],
            ],
          },
          {
            title: "Second factors under an earlier key",
            unit: "short",
            queries: [["max(gatehouse_totp_secrets_under_earlier_key)", "secrets"]],
          },
          {
            title: "Certificates expire in",
            unit: "s",
            queries: [["min by (service) (gatehouse_certificate_end_seconds) - time()", "{{service}}"]],
          },
          {
            title: "Redis in use",
            unit: "short",
            queries: [
              ["min by (service) (gatehouse_redis_connected)", "{{service}}: revocations"],
              ["min by (service) (gatehouse_throttle_shared)", "{{service}}: throttle"],
            ],
          },
          {
            title: "Breach lookups",
            unit: "reqps",
            queries: [
              [RATE("gatehouse_breach_list_lookups_total", "outcome"), "list: {{outcome}}"],
              [RATE("gatehouse_breach_lookups_total", "outcome"), "{{outcome}}"],
            ],
          },
          {
            title: "Hashes of breached passwords",
            unit: "short",
            queries: [["min(gatehouse_breach_list_entries)", "in the list"]],
          },
        ],
      },
      {
        title: "Pending work",
        panels: [
          {
            title: "Ends of sessions not confirmed",
            unit: "short",
            queries: [["max(gatehouse_session_ends_waiting)", "waiting"]],
          },
          {
            title: "Oldest mail",
            unit: "s",
            queries: [["max(gatehouse_mail_oldest_waiting_seconds)", "age"]],
          },
          {
            title: "Mails",
            unit: "reqps",
            queries: [[RATE("gatehouse_mails_total", "template, result"), "{{template}}: {{result}}"]],
          },
        ],
      },
    ],
  },
  audit: {
    uid: "gatehouse-audit",
    title: "Gatehouse: audit log",
    rows: [
      {
        title: "Into the log",
        panels: [
          {
            title: "Entries",
            unit: "reqps",
            queries: [
              [RATE("gatehouse_audit_entries_stored_total", "log"), "stored in log {{log}}"],
              ["sum(rate(gatehouse_audit_entries_repeated_total[$__rate_interval]))", "repeated"],
              [
                "sum(rate(gatehouse_audit_intents_closed_total[$__rate_interval]))",
                "intents closed as unknown",
              ],
            ],
          },
          {
            title: "By producers",
            unit: "reqps",
            queries: [
              [RATE("gatehouse_audit_acknowledged_total", "service"), "{{service}}: acknowledged"],
              [RATE("gatehouse_audit_reconnects_total", "service"), "{{service}}: streams begun again"],
              [
                "sum(rate(gatehouse_failed_logins_not_recorded_total[$__rate_interval]))",
                "failed logins not recorded",
              ],
            ],
          },
          {
            title: "Group commit, 99th percentile",
            unit: "s",
            queries: [[P99("gatehouse_audit_commit_seconds", "instance"), "{{instance}}"]],
          },
          {
            title: "Until an entry is durable, 99th percentile",
            unit: "s",
            queries: [[P99("gatehouse_audit_durable_seconds", "service"), "{{service}}"]],
          },
        ],
      },
      {
        title: "Waiting",
        panels: [
          {
            title: "Not acknowledged",
            unit: "short",
            queries: [
              ["sum by (service) (gatehouse_audit_queued_entries)", "{{service}}"],
              ["sum by (log) (gatehouse_audit_waiting_entries)", "received, not stored in log {{log}}"],
            ],
          },
          {
            title: "Spool",
            unit: "bytes",
            queries: [
              ["sum by (service, instance) (gatehouse_audit_spool_bytes)", "{{service}} {{instance}}"],
            ],
          },
          {
            title: "Through the spool",
            unit: "reqps",
            queries: [
              ["sum(rate(gatehouse_audit_spooled_total[$__rate_interval]))", "written"],
              ["sum(rate(gatehouse_audit_spool_drained_total[$__rate_interval]))", "sent"],
              ["sum(rate(gatehouse_audit_spool_recovered_total[$__rate_interval]))", "of former processes"],
              ["sum(rate(gatehouse_audit_spool_errors_total[$__rate_interval]))", "failures"],
            ],
          },
          {
            title: "Security events not delivered",
            unit: "s",
            queries: [
              ["max by (service) (gatehouse_outbox_lag_seconds)", "oldest of {{service}}"],
              ["max by (service) (gatehouse_security_events_waiting)", "count of {{service}}"],
            ],
          },
        ],
      },
      {
        title: "Proof",
        panels: [
          {
            title: "Numbered entries, and entries under a checkpoint",
            unit: "short",
            queries: [
              ["max by (log) (gatehouse_audit_log_size)", "log {{log}}: numbered"],
              ["max by (log) (gatehouse_audit_checkpoint_size)", "log {{log}}: under a checkpoint"],
              ["max by (log) (gatehouse_audit_noted_size)", "log {{log}}: under log 0's"],
            ],
          },
          {
            title: "Ages",
            unit: "s",
            queries: [
              ["min by (log) (gatehouse_audit_head_age_seconds)", "log {{log}}: last number"],
              ["min by (log) (gatehouse_audit_checkpoint_age_seconds)", "log {{log}}: last checkpoint"],
            ],
          },
          {
            title: "Sequencers; refused; stray",
            unit: "short",
            queries: [
              ["sum by (log) (gatehouse_audit_sequencer)", "log {{log}}: sequencers (1 is right)"],
              ["max by (log) (gatehouse_audit_refused)", "log {{log}}: refused"],
              ["max by (log) (gatehouse_audit_stray_entries)", "log {{log}}: outside the partitions"],
            ],
          },
          {
            title: "Without numbers",
            unit: "short",
            queries: [["max by (log) (gatehouse_audit_backlog_entries)", "log {{log}}"]],
          },
        ],
      },
      {
        title: "Webhooks",
        panels: [
          {
            title: "Attempts, by result",
            unit: "reqps",
            queries: [[RATE("gatehouse_webhook_attempts_total", "result"), "{{result}}"]],
          },
          {
            title: "From the log to a first delivery, 99th percentile",
            unit: "s",
            queries: [[P99("gatehouse_webhook_delay_seconds", "instance"), "{{instance}}"]],
          },
          {
            title: "Webhooks served",
            unit: "short",
            queries: [["sum by (instance) (gatehouse_webhooks_served)", "{{instance}}"]],
          },
          {
            title: "Since the log was read and the webhooks held",
            unit: "s",
            queries: [["max by (instance) (gatehouse_event_stream_lag_seconds)", "{{instance}}"]],
          },
        ],
      },
    ],
  },
  runtime: {
    uid: "gatehouse-runtime",
    title: "Gatehouse: processes and databases",
    rows: [
      {
        title: "Processes",
        panels: [
          {
            title: "Versions",
            unit: "short",
            queries: [
              [
                "count by (service, version, node) (gatehouse_build_info)",
                "{{service}} {{version}}, Node {{node}}",
              ],
            ],
          },
          {
            title: "CPU",
            unit: "short",
            queries: [[RATE("process_cpu_seconds_total", "service, instance"), "{{service}} {{instance}}"]],
          },
          {
            title: "Resident memory",
            unit: "bytes",
            queries: [["process_resident_memory_bytes", "{{service}} {{instance}}"]],
          },
          {
            title: "Event loop lag, 99th percentile",
            unit: "s",
            queries: [["nodejs_eventloop_lag_p99_seconds", "{{service}} {{instance}}"]],
          },
        ],
      },
      {
        title: "Databases",
        panels: [
          {
            title: "Connections and their maximum",
            unit: "short",
            queries: [
              ["sum by (service, part) (gatehouse_database_connections)", "{{service}} {{part}}"],
              [
                "sum by (service, part) (gatehouse_database_connections_max)",
                "{{service}} {{part}}: at most",
              ],
            ],
          },
          {
            title: "A trivial statement, 99th percentile",
            unit: "s",
            queries: [[P99("gatehouse_database_probe_seconds", "service, part"), "{{service}} {{part}}"]],
          },
          {
            title: "Trivial statements that failed",
            unit: "reqps",
            queries: [
              [RATE("gatehouse_database_probe_failures_total", "service, part"), "{{service}} {{part}}"],
            ],
          },
          {
            title: "Clock skew",
            unit: "s",
            queries: [["gatehouse_database_clock_skew_seconds", "{{service}} {{instance}} {{part}}"]],
          },
        ],
      },
      {
        title: "Readiness",
        panels: [
          {
            title: "Parts",
            unit: "short",
            queries: [["gatehouse_ready", "{{service}} {{instance}}: {{part}}"]],
          },
          {
            title: "Routes files",
            unit: "short",
            queries: [["sum by (result) (increase(gatehouse_routes_reloads_total[1h]))", "{{result}}"]],
          },
        ],
      },
    ],
  },
};
