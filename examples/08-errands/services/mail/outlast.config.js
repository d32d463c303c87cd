const { defineConfig } = require('outlast');

module.exports = defineConfig({
  tasks: ['./src/handlers/*'],
  worker: { queues: ['errands'] },
});
