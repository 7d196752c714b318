-- The operator whose certificate a call was made with: operator:ada.
alter table security_events add column person text;
