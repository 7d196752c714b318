-- Whose sessions have ended: when an account is erased, where it was used from goes with it. Those that have not ended
-- are in sessions_live_by_user.
create index sessions_ended_by_user on sessions (user_id) where revoked_at is not null;
