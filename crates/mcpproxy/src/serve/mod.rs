//! `serve`: what others reach us by. The doors, who may pass them, and what is behind each route.

pub mod bridge;
pub mod caller;
pub mod control;
pub mod guard;
pub mod judge;
pub mod listen;
pub mod mcp;
pub mod menu;
pub mod rest;
pub mod router;
